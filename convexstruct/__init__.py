"""convexstruct: convex structured prediction, stated declaratively, solved fast, and certified."""
