"""Whether the tests notice a change of the code: mutation tests, by cosmic-ray, of a sample."""
