"""Detection and repair of damage (doctor, repair, verification), and scheduling of services."""
