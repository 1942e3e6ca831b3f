"""From the model of a gateway to Envoy's configuration, and the server that hands it out."""
