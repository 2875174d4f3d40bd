"""How a consumer leases messages that are due, extends its leases and ends them."""
