#pragma once

#include "export/ascend_profile.h"
#include "trace/reader.h"

namespace drydock::cli {

/// What the calls of a trace take on the device of the trace's profile, by its roofline (cost/roofline.h), and on which
/// of its units they run. Valid as long as the reader.
exports::CallFacts call_facts_of(const trace::Reader& reader);

}  // namespace drydock::cli
