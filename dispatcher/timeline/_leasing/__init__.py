"""How a consumer leases what is due, keeps it and ends its leases."""
