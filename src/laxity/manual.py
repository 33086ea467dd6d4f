"""What `--help` says below the options: examples that are checked against the commands, and exit
codes. In one place, so that a command without an example is seen (tests/test_cli.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer
    from typer.models import CommandInfo

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    # command: (what is typed, what it does)
    "init": (
        ("laxity init", "pipeline.py and laxity.toml in this folder"),
        ("laxity init example", "in a new one"),
    ),
    "run": (
        ("laxity run pipeline.py", "with laxity.toml beside it, if there is one"),
        ("laxity run pipeline.py --master local[8] --target errors=500ms", "flags outrank it"),
        ("laxity run pipeline.py --master yarn --checkpoints hdfs:///me/ck", "on a cluster"),
        (
            "laxity run pipeline.py --address 0.0.0.0:8642 --token-file token",
            "a dashboard for other machines",
        ),
        (
            "laxity run pipeline.py --events events.jsonl --webhook https://example.com/hook",
            "tell what happens",
        ),
    ),
    "doctor": (
        ("laxity doctor", "everything, Spark's hooks included"),
        ("laxity doctor --quick --json", "without starting Spark, for a script"),
        ("laxity doctor --checkpoints /data/checkpoints", "look at that file system"),
    ),
    "top": (
        ("laxity top", "the run on this machine, live"),
        ("laxity top spark-host:8642 --token-file token", "one elsewhere"),
        ("laxity top --once --sort p99 --filter reports", "one table, then leave"),
        ("laxity top --json", "for a script"),
    ),
    "dashboard": (
        ("laxity dashboard spark-host:8642 --token-file token --open", "look at a run elsewhere"),
    ),
    "demo": (
        ("laxity demo", "about three minutes; the picture goes to out/demo.png"),
        ("laxity demo --virtual", "no Spark, one second"),
        ("laxity demo --alerts 4 --bulk 6 --rows 80000", "more than two cores can carry"),
    ),
    "simulate": (
        ("laxity simulate examples/simulate/shop.yaml", "would these targets hold?"),
        ("laxity simulate recording.jsonl --meet 0.95", "those of a recorded run"),
    ),
    "reproduce": (
        ("laxity reproduce 4 8a", "two figures of Cameo's paper"),
        ("laxity reproduce all --quick", "every one, with fewer points"),
    ),
    "agent": (
        ("laxity agent --name node-1 --master local[4]", "join the fleet of this machine"),
        ("laxity agent --name node-2 --url http://10.0.0.5:7000 --token-file token", "elsewhere"),
    ),
    "control show": (
        ("laxity control show errors", "as it is, and how it came to be"),
        ("laxity control show errors --json", "for a script"),
    ),
    "control set": (
        ("laxity control set errors least=10 --token-file token", "a variable of the query"),
        ("laxity control set errors --target 500ms --pace 1s --token-file token", "its settings"),
    ),
    "control pause": (("laxity control pause errors --token-file token", "until it is resumed"),),
    "control resume": (("laxity control resume errors --token-file token", "it goes on"),),
    "control scale": (("laxity control scale errors 4 --token-file token", "four partitions"),),
    "control savepoint": (
        ("laxity control savepoint errors /backups/errors --token-file token", "copy it"),
    ),
    "control rollback": (
        ("laxity control rollback errors 120 --token-file token", "batch 120 is its last"),
    ),
    "control monitor": (
        ("laxity control monitor errors --every 10 --token-file token", "in every tenth batch"),
    ),
    "control repair-skew": (
        ("laxity control repair-skew errors --method salt --token-file token", "spread hot keys"),
    ),
    "control tune": (("laxity control tune errors 800ms --token-file token", "find its size"),),
    "control undo": (("laxity control undo errors --token-file token", "the last change"),),
    "bench core": (("laxity bench core --quick", "without a million pending messages"),),
    "bench spark": (("laxity bench spark --json out/spark.json", "and keep the numbers"),),
    "bench server": (
        ("laxity bench server", "200 dashboards come and go three times, in five minutes"),
        ("laxity bench server --clients 20 --rounds 1 --seconds 10", "a short look"),
    ),
    "bench soak": (
        ("laxity bench soak", "an hour"),
        ("laxity bench soak --minutes 10 --every 20", "ten minutes, beside other work"),
    ),
    "bench standard": (
        ("laxity bench standard", "FIFO, hand-tuned FAIR and Laxity, three rounds each"),
        ("laxity bench standard --modes fifo,laxity --rounds 1 --seconds 30", "a short one"),
    ),
    "bench density": (("laxity bench density --rounds 1", "a quick search"),),
    "bench fleet": (("laxity bench fleet", "cost of a report, time of a plan"),),
    "bench fleet-spark": (
        ("laxity bench fleet-spark --plot out/fleet.png", "without and with moves, a round"),
        ("laxity bench fleet-spark --rounds 0", "what the rounds so far say"),
    ),
    "host": (
        ("laxity host --engine spark --target alerts=800ms", "until Ctrl-C"),
        ("laxity host --engine spark --dry-run", "show what would be changed"),
    ),
    "host status": (("laxity host status --json", "for a script"),),
    "host restore": (("laxity host restore", "after a loop was killed"),),
    "fleet start": (
        ("laxity fleet start pipeline.py --nodes 2", "place its queries on two agents"),
        ("laxity fleet start pipeline.py --place errors=node-1 --no-moves", "by hand"),
    ),
    "fleet place": (("laxity fleet place more.py --at errors=node-1", "add queries"),),
    "fleet show": (("laxity fleet show --json", "for a script"),),
    "fleet move": (("laxity fleet move errors node-2", "with its state"),),
    "fleet drain": (
        ("laxity fleet drain node-1", "before it is taken down"),
        ("laxity fleet drain node-1 --undo", "it is back"),
    ),
    "fleet retire": (("laxity fleet retire errors", "stop it for good"),),
    "bench host synthetic": (("laxity bench host synthetic", "on an engine made for it"),),
    "bench host table": (("laxity bench host table out/host.json", "print a saved run again"),),
    "bench host mixed": (("laxity bench host mixed", "Spark beside other load"),),
    "bench host mixed-table": (("laxity bench host mixed-table out/mixed.json", "print it again"),),
    "bench host cost": (("laxity bench host cost", "what the loop itself takes"),),
}

EXIT_CODES = {
    "run": "0 stopped by a signal, or all queries have finished; 1 a query was given up; "
    "2 the pipeline, settings or flags cannot be used; 3 Spark died.",
    "doctor": "0 Laxity works here; 1 something keeps it from working, and is said.",
}
_USUAL_CODES = "0 done; 2 bad input, said in one line."


def describe(app: Typer) -> None:
    """Put the examples under every command's help, and let a terminal wrap its text."""
    for name, info in commands(app):
        info.epilog = _epilog(name, info.callback)
        info.help = _unwrapped(info.help or inspect.getdoc(info.callback) or "")
    for group in app.registered_groups:
        if group.name in EXAMPLES:
            group.epilog = _epilog(str(group.name))


def commands(app: Typer, above: tuple[str, ...] = ()) -> Iterator[tuple[str, CommandInfo]]:
    """Every command below, with its name as it is typed."""
    for info in app.registered_commands:
        called = info.name or str(getattr(info.callback, "__name__", ""))
        yield " ".join((*above, called)), info
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from commands(group.typer_instance, (*above, str(group.name)))


def _plain_call(name: str, callback: Callable[..., object] | None) -> tuple[tuple[str, str], ...]:
    """Of a command that nobody has given an example."""
    takes = inspect.signature(callback).parameters.values() if callback else ()
    needed = [p.name.upper() for p in takes if p.default is p.empty]
    return ((" ".join(["laxity", name, *needed]), "with the defaults above"),)


def _epilog(name: str, callback: Callable[..., object] | None = None) -> str:
    lines = []
    for typed, does in EXAMPLES.get(name) or _plain_call(name, callback):
        lines.append(f"$ {typed}")
        lines.append(f"    {does}")
    codes = EXIT_CODES.get(name, _USUAL_CODES)
    return "\n".join(["Examples:", *lines]) + f"\n\nExit codes: {codes}"


def _unwrapped(text: str) -> str:
    """A line for each paragraph: docstrings are wrapped for the code's width."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
