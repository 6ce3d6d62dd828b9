module example.com/freetime

go 1.24
