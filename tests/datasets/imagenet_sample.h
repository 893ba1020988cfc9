// Real photographs for tests, where available.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

namespace terngrad {

inline constexpr const char* kImageNetSample = "../shared/data/imagenet-sample/images";
inline constexpr std::size_t kImageNetSampleImages = 39;

/// The JPEG files, sorted; empty if the folder does not exist.
inline std::vector<std::filesystem::path> imagenet_sample() {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::exists(kImageNetSample)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kImageNetSample)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace terngrad
