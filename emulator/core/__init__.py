"""The rules of an instance's life: `decide` and `evolve`, and nothing that touches the world."""
