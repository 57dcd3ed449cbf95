"""The observation of a server: logs, metrics, traces."""
