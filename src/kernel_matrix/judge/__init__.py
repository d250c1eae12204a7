"""The judge: results and a plan -> the state of every planned case. Its rules are SQL, in the folder ``steps``."""
