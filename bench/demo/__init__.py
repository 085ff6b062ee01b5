"""`make demo`: the main job on this machine alone, on a real Redis and a real MongoDB, with what happens on view."""
