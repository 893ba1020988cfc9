// Registry: codecs by name, and canonical specs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

/// Properties of the run that a codec depends on, besides its own options.
struct CodecContext {
  int num_workers = 1;       // N of the run
  std::int64_t columns = 0;  // last dimension of the tensors, 0 if they have only one (CodecTraits::columns)
};

/// A codec that can be named in specs.
struct CodecEntry {
  const char* name;
  const char* summary;  // one line
  /// Reads all of the codec's options and makes it. The caller then refuses options that were not read.
  std::unique_ptr<Codec> (*make)(SpecReader& reader, const CodecContext& context);
  const char* source = "";   // publications
  bool runs_on_gpus = true;  // has kernels; else the host does the work (compress/codec/host_coder.h)
};

/// All codecs, in a fixed order.
std::span<const CodecEntry> codec_entries();

/// Names of all codecs.
std::vector<std::string> codec_names();

/// Keys of a codec with its defaults, in the order in which it reads them. @throws InvalidArgument for an unknown name
std::vector<SpecKey> codec_keys(const std::string& name);

/// Makes the codec of a spec, which may be a preset with further options (codec_presets.h).
/// @throws InvalidArgument for an empty spec, an unknown name (lists the known ones), an unknown key, or invalid values
std::unique_ptr<Codec> make_codec(std::string_view spec, const CodecContext& context);

/// The spec with a value for every key that has an effect: canonical specs are equal exactly if the codecs are the
/// same. A preset is replaced by its spec.
/// @param defaults  override the codec's own defaults of keys that the spec does not name
/// @throws InvalidArgument as make_codec
CodecSpec canonical_codec_spec(std::string_view spec, const SpecOptions& defaults = {});

}  // namespace terngrad
