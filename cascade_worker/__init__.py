"""The Cascade worker: one process per sim, which runs Accel-Sim (or replays a recording) and reports to the server."""
