"""Damage found, named and mended: doctor, repair, verification, services that are due."""
