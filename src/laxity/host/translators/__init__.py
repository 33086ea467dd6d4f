"""Translators: from schedules to operating-system settings (§5.3)."""

from laxity.host.translators.api import Change, Format, Translator
from laxity.host.translators.factory import TRANSLATOR_NAMES, make_translator

__all__ = ["TRANSLATOR_NAMES", "Change", "Format", "Translator", "make_translator"]
