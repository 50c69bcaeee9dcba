"""Train the paper's competitors with the same code as HadamRNN. Start at `networks.KINDS`."""
