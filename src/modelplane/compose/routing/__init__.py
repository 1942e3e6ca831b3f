"""Front doors, endpoints and routes."""
