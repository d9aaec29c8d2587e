"""What a person writes: samples, sets, losses, models."""
