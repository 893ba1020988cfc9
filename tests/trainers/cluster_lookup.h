// What tests look up in a cluster file by its name.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "trainers/commands/cluster_file.h"

namespace terngrad::testing {

template <class Named, class Name>
const Named* find_named(const std::vector<Named>& all, Name Named::*name, const std::string& wanted) {
  const auto found = std::ranges::find(all, wanted, name);
  return found == all.end() ? nullptr : &*found;
}

/// Null if the file has none of that name.
inline const ClusterNet* find_net(const ClusterFile& file, const std::string& name) {
  return find_named(file.nets, &ClusterNet::name, name);
}
inline const CodecWork* find_codec(const ClusterFile& file, const std::string& name) {
  return find_named(file.codecs, &CodecWork::codec, name);
}

}  // namespace terngrad::testing
