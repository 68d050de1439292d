"""Messages between the roles: problem details, frames, the signed task list, and the client of a coordinator."""
