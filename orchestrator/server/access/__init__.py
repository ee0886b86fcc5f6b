"""Who is calling: signatures, keys and tenants, and what no caller may do."""
