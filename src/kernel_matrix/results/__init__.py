"""Records of cases: reading and checking them, comparing them with the plan and the present, repeating them."""
