"""The parts of the inspector's page. Each shows one thing and watches one `Looking`; none knows another."""
