"""What an operator sees of a server: logs, metrics, traces."""
