"""Engine drivers: public run-time information into entities and raw metrics (§4)."""
