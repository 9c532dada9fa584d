import HTTPTypes
import HummingbirdCore
import Metrics
import NIOCore
import NIOHTTPTypes

/// The body did not arrive in time. The reader of the body meets it and answers 408.
struct BodyTimedOut: Error {}
