"""The edge: builds the objects of the other rooms and hands them in."""
