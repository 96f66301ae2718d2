#include "ops/objects.h"

namespace drydock::ops {

ObjectPools& objects() noexcept {
  static ObjectPools& pools = *new ObjectPools;
  return pools;
}

}  // namespace drydock::ops
