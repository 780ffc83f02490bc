"""Probes: each test tries one attack on the product as it runs, and says what stopped the attack."""
