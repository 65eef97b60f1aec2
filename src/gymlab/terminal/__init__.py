"""Drawing in a terminal, plotting as text, and giving the terminal back as it was found."""
