import Logging
import Metrics
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

/// The caller is not served any more.
struct AccessRevoked: Error {}
