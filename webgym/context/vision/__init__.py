"""The formats of vision models that were trained to operate a computer by its screenshots."""
