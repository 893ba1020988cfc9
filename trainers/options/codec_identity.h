// What the options of codecs say in the identity of a run.
#pragma once

#include <string>
#include <string_view>

namespace terngrad {

struct TrainOptions;

/// The codec of tensors that no rule names, as a spec with all its keys; "fp16" is none.
std::string codec_identity(const TrainOptions& o);

/// The rules of --codec_for, with all keys and values where one has some of its own. A codec's name alone stays as it
/// was given.
std::string codec_rules_identity(const TrainOptions& o);

/// The value of a key of ternary, however it was given: in the spec of the codec of tensors that no rule names, or by
/// the option that is its long name. @param key  of kTernaryKeyOptions
std::string ternary_key_identity(const TrainOptions& o, std::string_view key);

/// Whether a recorded spec is of the same codec: one of an earlier program lacks keys that codecs have got since, which
/// stand for what it did.
bool is_same_codec(const std::string& ours, const std::string& recorded);

/// is_same_codec of every rule. A name alone takes what the long names of options say, so it is the same as no other
/// text.
bool are_same_rules(const std::string& ours, const std::string& recorded);

}  // namespace terngrad
