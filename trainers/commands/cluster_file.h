// Cluster files: what terngrad_advise --cluster reads. JSON, in which comments (// and /* */) are allowed:
//
//   {
//     "schema": 1,
//     "name": "sixteen-hosts",
//     "machines": 16,
//     "gpus_per_machine": 4,
//     "measured_workers": 8,           // the most workers that the numbers below were observed with
//     "links": {                       // gpu and host may be missing where a machine has one GPU
//       "gpu":     {"latency_us": 5, "gbytes_per_second": 11.9, "source": "given"},
//       "host":    {"latency_us": 0, "gbytes_per_second": 11.9, "source": "assumed"},
//       "network": {"samples": [{"bytes": 1024, "seconds": 0.0004}, {"bytes": 4194304, "seconds": 0.0361}]}
//     },
//     "bisection_factor":    {"value": 0.5, "source": "given"},      // may be missing: 1, assumed
//     "straggler_deviation": {"value": 0.02, "source": "measured"},  // may be missing: 0, assumed
//     "calibration": {"commit": "41a020bb6868", "machine": "..."},   // must be there if a source is measured
//     "nets": [{                       // the file may lack these and codecs, the command needs both
//       "name": "lenet",
//       "examples_per_worker": 64,
//       "compute": {"points": [{"examples": 32, "seconds": 0.006}, {"examples": 64, "seconds": 0.012}],
//                   "source": "measured"},
//       "update":  {"points": [{"elements": 431080, "seconds": 0.0001}], "source": "measured"},
//       "backward_fraction": {"value": 0.66, "source": "measured"},  // may be missing: 2/3, assumed
//       "buckets": [{"elements": 431080, "plain_elements": 5010, "tensors": 6, "ready_fraction": 1}]
//     }],
//     "codecs": [{
//       "name": "t2",
//       "encode": {"points": [{"elements": 431080, "seconds": 0.0009}], "source": "measured"},
//       "decode": {"points": [{"elements": 431080, "seconds": 0.0002}], "source": "measured"}
//     }]
//   }
//
// A source is "measured", "given" or "assumed". A link has a latency and a bandwidth, in gbytes_per_second (10^9 bytes)
// or gbits_per_second, or the samples of a measured one as terngrad_advise --json writes them, which fit_link fits. The
// units of one point, or two of growing size, are those of ClusterNet and CodecWork.
#pragma once

#include <string>
#include <vector>

#include "compress/cost/cluster_model.h"

namespace terngrad {

struct ClusterFile {
  Cluster cluster = {};
  std::vector<ClusterNet> nets = {};
  std::vector<CodecWork> codecs = {};
  // What measured the measured ones; empty if nothing says so.
  std::string commit = {};
  std::string machine = {};
};

/// @param file  how messages name it
/// @throws InvalidArgument, with the name of the file and the key, for what is no JSON, a key that is unknown, missing
/// or there twice, a value of another type or out of range, a name of which there are two, numbers that are measured
/// without calibration, and links without which GPUs or machines are not joined
ClusterFile parse_cluster(const std::string& text, const std::string& file);

/// @throws DataError if the file cannot be read or is larger than 1 MiB; InvalidArgument as parse_cluster
ClusterFile read_cluster_file(const std::string& path);

}  // namespace terngrad
