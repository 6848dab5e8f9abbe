"""A receiver of OTLP metrics over gRPC, from OpenTelemetry's own messages: `python3 collector.py FOLDER PORT [MODE]`.

Each export becomes a file `FOLDER/export-N.json`: the resource, the metrics with their types, and the same values as the lines of a page
in Prometheus' format, each value as a text, because readers of JSON may round. Modes: `refuse` answers with an error,
`partial` rejects three values.
"""

import json
import os
import sys
from concurrent import futures

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as rpc
from opentelemetry.proto.metrics.v1 import metrics_pb2

folder, port = sys.argv[1], sys.argv[2]
mode = sys.argv[3] if len(sys.argv) > 3 else "accept"
CUMULATIVE = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
SPECIAL = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def line(name, attributes, value):
    texts = [f'{at.key}="{at.value.string_value.translate(SPECIAL)}"' for at in attributes]
    return [name + ("{" + ",".join(texts) + "}" if texts else ""), repr(float(value))]


def bucket(name, point, bound, count):
    le = [f'{at.key}="{at.value.string_value.translate(SPECIAL)}"' for at in point.attributes] + [f'le="{bound}"']
    return [f"{name}_bucket{{{','.join(le)}}}", repr(float(count))]


def lines(metric):
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        if kind == "histogram":
            count = 0
            bounds = [repr(int(bound) if bound.is_integer() else bound) for bound in point.explicit_bounds] + ["+Inf"]
            assert len(bounds) == len(point.bucket_counts), metric.name
            for bound, more in zip(bounds, point.bucket_counts):
                count += more
                yield bucket(metric.name, point, bound, count)
            assert count == point.count, metric.name
            yield line(f"{metric.name}_count", point.attributes, count)
        else:
            assert point.WhichOneof("value") == "as_double", metric.name
            yield line(metric.name + ("_total" if kind == "sum" else ""), point.attributes, point.as_double)


def facts(metric):
    kind = metric.WhichOneof("data")
    data = getattr(metric, kind)
    if kind != "gauge":
        assert data.aggregation_temporality == CUMULATIVE, metric.name
    if kind == "sum":
        assert data.is_monotonic, metric.name
    times = [(point.start_time_unix_nano, point.time_unix_nano) for point in data.data_points]
    return {"kind": kind, "unit": metric.unit, "help": metric.description, "times": times}


class Receiver(rpc.MetricsServiceServicer):
    number = 0

    def Export(self, request, context):
        if mode == "refuse":
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no \x1b[31mroom")
        (of,) = request.resource_metrics
        (scope,) = of.scope_metrics
        shown = {
            "resource": {at.key: at.value.string_value for at in of.resource.attributes},
            "agent": dict(context.invocation_metadata())["user-agent"],
            "metrics": {metric.name: facts(metric) for metric in scope.metrics},
            "lines": [one for metric in scope.metrics for one in lines(metric)],
        }
        path = os.path.join(folder, f"export-{self.number}.json")
        Receiver.number += 1
        with open(path + ".part", "w") as file:
            json.dump(shown, file)
        os.rename(path + ".part", path)
        response = service.ExportMetricsServiceResponse()
        if mode == "partial":
            response.partial_success.rejected_data_points = 3
            response.partial_success.error_message = "three \x1b[31mvalues"
        return response


server = grpc.server(futures.ThreadPoolExecutor(max_workers=1), options=[("grpc.so_reuseport", 0)])
rpc.add_MetricsServiceServicer_to_server(Receiver(), server)
bound = server.add_insecure_port(f"127.0.0.1:{port}")
server.start()
print(bound, flush=True)
server.wait_for_termination()
