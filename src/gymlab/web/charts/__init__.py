"""Charts: downsampled series, ECharts options made of them, and how both get to the browser."""
