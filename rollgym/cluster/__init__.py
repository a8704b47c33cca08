"""Collections whose attempts run in many processes, on this machine or on a Ray cluster; servers there."""
