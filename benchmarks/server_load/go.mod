module modelplane.ai/benchmarks/server_load

go 1.26.0
