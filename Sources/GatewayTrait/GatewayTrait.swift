#if !Gateway
    #error("The gateway and its tests are built with their trait: make build, or swift build --traits Gateway")
#endif
