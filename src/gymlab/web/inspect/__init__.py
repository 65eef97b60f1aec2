"""The parts of the inspector's page. Each shows one thing and watches one `InspectorState`; none knows another."""
