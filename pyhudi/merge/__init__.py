"""How records with the same key are merged: rules, payload classes, logs into base rows."""
