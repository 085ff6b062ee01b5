"""Pictures of the dashboards, for the documentation and for a look: `python -m grafana.pictures`."""
