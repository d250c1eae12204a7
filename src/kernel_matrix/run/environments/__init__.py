"""Jobs as processes of this machine, in an environment of their own or in this interpreter."""
