"""Parts of the inspector's page. Each observes the page's `InspectorState`; none knows another."""
