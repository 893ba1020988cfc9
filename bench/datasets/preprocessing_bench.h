// The images that preprocessing is measured on.
#pragma once

#include <string>

namespace terngrad::bench {

/// Takes the JPEG and PNG files of a folder; without one preprocessing makes some up. False if it has none. To be
/// called before all_rows().
bool set_image_folder(const std::string& folder);

}  // namespace terngrad::bench
