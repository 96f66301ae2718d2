"""What the virtual device is held against: torch's OpInfo database, suites of a checkout, the vendor's examples."""
