// Codecs by name, and what a spec stands for.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

/// What a codec has to know of the run beside its own options.
struct CodecContext {
  int num_workers = 1;       // N of the run
  std::int64_t columns = 0;  // of the tensors: their last dimension, 0 where it is the only one (CodecTraits::columns)
};

/// A codec that specs can name.
struct CodecEntry {
  const char* name;
  const char* summary;  // what it does, in one line
  /// Reads the codec's options, all of them whatever the spec says, and makes it. What is left over is refused after
  /// it.
  std::unique_ptr<Codec> (*make)(SpecReader& reader, const CodecContext& context);
  const char* source = "";   // the publications that it is from
  bool runs_on_gpus = true;  // by kernels; else its tensors' work is the host's (compress/codec/host_coder.h)
};

/// All codecs, in a fixed order.
std::span<const CodecEntry> codec_entries();

/// Their names.
std::vector<std::string> codec_names();

/// The codec's keys, with its defaults, in the order in which it reads them. @throws InvalidArgument for an unknown
/// name
std::vector<SpecKey> codec_keys(const std::string& name);

/// Makes the codec that a spec, or a preset with further options (codec_presets.h), stands for.
/// @throws InvalidArgument for no spec, an unknown name (naming the known ones), a key that the codec lacks, or
/// impossible values
std::unique_ptr<Codec> make_codec(std::string_view spec, const CodecContext& context);

/// The spec with a value for every key that has an effect: two specs are the same codec exactly if these are equal. Of
/// a preset, the spec that it stands for.
/// @param defaults  values in place of the codec's own defaults, for those of its keys that the spec does not name
/// @throws InvalidArgument as make_codec
CodecSpec canonical_codec_spec(std::string_view spec, const SpecOptions& defaults = {});

}  // namespace terngrad
