#error "not outside Linux"
