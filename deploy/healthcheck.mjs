// Health of a container: /readyz of the API or, in a process without it, of the metrics port.
const ports = [process.env.PORT || '8080', process.env.KEYHOOK_METRICS_PORT].filter(Boolean)
const answers = await Promise.all(
  ports.map((port) =>
    fetch(`http://127.0.0.1:${port}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  ),
)
process.exit(answers.includes(true) ? 0 : 1)
