"""Damage found and repaired: doctor, repair, verification, and services that are due."""
