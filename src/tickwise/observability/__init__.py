"""What is seen from outside: every metric and every log event is declared here, once."""
