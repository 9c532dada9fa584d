import HTTPTypes
import HummingbirdCore
import Metrics
import NIOCore
import NIOHTTPTypes

/// The body did not arrive in time. Its reader receives this error and responds with 408.
struct BodyTimedOut: Error {}
