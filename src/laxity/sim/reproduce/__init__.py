"""Cameo's evaluation (§6), figure by figure, in the simulator."""
