"""Re-visits, as pure functions: beliefs and worth against numerical integration, prices, weights, rows after visits."""
